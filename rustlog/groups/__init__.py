"""Consumer groups: who belongs to one, what each member owns, and who may commit."""
