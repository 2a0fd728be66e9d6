"""Credentials for live accounts; against a local server the account key serves everywhere."""

import os


def get_credential(is_async=False, **_options):
    return os.environ["ACCOUNT_KEY"]
