"""Work of ``wirecodec rounds``: who took part in the rounds of a run, what it cost, and who was late."""
