"""What several rules share: layers, attention, copies, memory profile, sources, stopping."""
