"""Writes deploy/base/webhook-registration.yaml from what the webhook says of itself."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from moiety.kube.dialects.request import WebhookConfig
from moiety.kube.webhook import registration

FILE = Path(__file__).resolve().parents[1] / "deploy" / "base" / "webhook-registration.yaml"
HEAD = """\
# When the API server asks the webhook. Written by tools/webhook_page.py; a running webhook adds its
# certificate, and the names of resources that its settings have.
"""


def text() -> str:
    """The file."""
    found = [registration.mutating(WebhookConfig()), registration.validating()]
    for each in found:
        each["metadata"]["labels"] = {"app.kubernetes.io/part-of": "moiety"}
    return HEAD + "---\n".join(yaml.safe_dump(each, sort_keys=False, width=100) for each in found)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(FILE.read_text() != text())
    FILE.write_text(text())
