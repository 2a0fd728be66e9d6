"""The suite sets `is_live._cache` itself, from the account's address, so this must be a function."""


def is_live():
    return getattr(is_live, "_cache", False)
