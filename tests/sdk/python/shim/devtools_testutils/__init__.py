"""Stands in for a package of the SDK's monorepo that its tests import and that is not published."""

from .azure_recorded_testcase import get_credential
from .helpers import is_live

__all__ = ["get_credential", "is_live"]
