"""Reference models of public papers, written plainly, for profiles without further packages."""
