"""Every way of tuning, and every way from there to an answer, keeps what was taught about the form of texts."""
import itertools
import unittest

from taught_text import LORA, ROWS, TaughtTextTest


class SlowTaughtText(TaughtTextTest):
    def test_every_method_and_every_way(self):
        bases = {"file": self.make_base("file"), "config": self.make_base("config", in_file=False),
                 "none": self.make_base("none", template=None)}
        for (name, base), method, adapter in itertools.product(bases.items(), ROWS, ((), LORA)):
            with self.subTest(base=name, method=method, adapter=bool(adapter)):
                key = f"{name}-{method}-{len(adapter)}"
                tuned = self.tune(method, base, *adapter, name=key)
                self.expect_files_of(tuned, adapter=bool(adapter))
                whole = tuned
                if adapter:
                    self.expect_generation_of(base, f"--adapter={tuned}")
                    self.expect_service_of(base, f"--adapter=mine={tuned}", name="mine")
                    whole = self.directory / key / "merged"
                    self.call("convert", base, whole, f"--merge-adapter={tuned}")
                    self.expect_files_of(whole)
                file, back = self.directory / key / "m.gguf", self.directory / key / "back"
                quantized = self.directory / key / "int8"
                self.call("convert", whole, file, "--type=f32")
                self.call("convert", file, back)
                self.call("convert", whole, quantized, "--quantize=int8")
                for folder in (whole, back, quantized):
                    self.expect_files_of(folder)
                for model in (whole, file, quantized):
                    self.expect_generation_of(model)
                self.expect_service_of(whole)


if __name__ == "__main__":
    unittest.main()
