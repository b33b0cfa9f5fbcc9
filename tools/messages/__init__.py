"""The page of all that moiety says when something goes wrong, made from the code."""
