"""Agreement before an exchange: headers, and the one error that they lead to on every rank."""
