"""Settings of an encoder or a Compressor: schemes, presets, schedules and feedback."""
