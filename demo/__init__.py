"""The demo: three unmodified CUDA programs on one GPU."""
