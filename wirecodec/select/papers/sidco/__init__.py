"""SIDCo: a threshold from a fitted distribution, corrected in stages and over steps."""
