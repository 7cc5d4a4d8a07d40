"""A scripted stand-in for a vendor's API, so that the real CLI runs with no key and no spend."""
