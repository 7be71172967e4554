"""Analysis of a question: names, times, speakers, titles."""
