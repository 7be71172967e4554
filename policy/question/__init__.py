"""What a question asks: facets, names, times, speakers, titles."""
