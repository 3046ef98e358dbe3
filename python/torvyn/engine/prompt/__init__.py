"""The prompt on its way to the engine, through the guards in front of it."""
