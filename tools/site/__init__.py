"""The site that `make docs` makes of docs/."""
