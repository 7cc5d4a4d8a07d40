"""Collects suites as tests."""
