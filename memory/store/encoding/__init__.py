"""How a record becomes rows and index text. Pure: no file is touched here."""
