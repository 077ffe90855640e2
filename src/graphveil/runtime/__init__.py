"""Where and how work runs: workers, processes, progress, and folders that survive a crash."""
