"""Tests of the prediction of schemes."""
