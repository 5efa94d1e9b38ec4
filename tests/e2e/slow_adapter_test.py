"""LoRA from the command line, each kind of adapter at every layout."""
import unittest

import adapter_test


class AdapterAtEveryLayout(adapter_test.Adapter):
    takes_every_layout = True


if __name__ == "__main__":
    unittest.main()
