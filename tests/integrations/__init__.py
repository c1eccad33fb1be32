"""Tests of the adapters for federated engines, with the real packages: `make test-integrations`."""
