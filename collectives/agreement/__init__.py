"""Agreement before an exchange: headers, their comparison, and the errors that follow from them."""
