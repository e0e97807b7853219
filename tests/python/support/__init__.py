"""Helpers that several Python tests, and some benchmarks, share. No test imports another test."""
