"""What stands in the documents, against what there is."""
