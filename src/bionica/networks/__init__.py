"""The mathematics: four learning rules, how neurons settle, and the one loop."""
