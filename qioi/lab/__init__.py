"""The bundled network, its load and its interferers on one machine."""
