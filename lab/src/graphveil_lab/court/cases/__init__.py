"""Claims that are known to be false, one file each: what is claimed, by whom, and the attack that refutes it.

A case is a frozen dataclass derived from `graphveil_lab.court.case.Case`; `graphveil court` finds it here.
"""
