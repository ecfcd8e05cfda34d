"""Crashcart: says why an LLM inference server died, and brings it back with corrected arguments."""

__version__ = "0.1.0"
