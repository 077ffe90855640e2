"""Growing graphs: a journal of the edges that were counted, and the periods that it tells apart."""
