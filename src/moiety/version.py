"""The one place where moiety's version stands; the build reads it from here."""

__version__ = "0.2.0"
