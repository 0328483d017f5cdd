"""The `local` launcher: Chromium as a subprocess of this machine, on the profile's own directory."""
