"""What the pages tell people to type, typed: on simgpu, each page in a folder of its own."""
