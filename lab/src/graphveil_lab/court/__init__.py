"""The soundness court: claims that are known to be false are refuted, sound ones attacked."""
