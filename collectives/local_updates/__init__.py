"""Local updates: workers train alone for some steps, and then average how far their parameters moved."""
