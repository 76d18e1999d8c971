"""Wire protocols, and what framed ones share."""
