"""`make mutants`: small mistakes are put into the code, and the tests nearest to it must notice."""
