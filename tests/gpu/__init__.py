"""What needs an NVIDIA GPU: `facts.py` measures it, `check.py` tries moiety on it."""
