"""Everything that checks moiety; docs/development.md says what lies where."""
