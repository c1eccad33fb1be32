"""Adapters for federated engines; each module needs its framework, and is imported by its name.

from collectives.integrations import flower
from collectives.integrations import nvflare
"""
