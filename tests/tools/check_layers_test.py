"""tools/check_layers.py finds violations that are planted, and nothing else."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_layers  # noqa: E402


class CheckLayers(unittest.TestCase):
    def found(self, files):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "src", "colossal")
            for name, text in files.items():
                path = source / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            _, lines = check_layers.violations(folder)
            return [line.removeprefix(str(source) + "/") for line in lines]

    def assert_finds(self, name, text, line, *words):
        found = self.found({name: text})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{name}:{line}: "), found)
        for word in words:
            self.assertIn(word, found[0])

    def assert_clean(self, files):
        self.assertEqual(self.found(files), [])

    def test_lower_levels_and_the_own_folder_are_fine(self):
        self.assert_clean({
            "nn/a.cpp":
                '#include "colossal/nn/a.h"\n#include "colossal/ops/b.h"\n#include <vector>\n',
            "cli/main.cpp": '#include "colossal/engine/booster.h"\n',
        })

    def test_a_higher_level(self):
        self.assert_finds("base/a.h", '\n#include "colossal/io/a.h"\n', 2, "base/", "io/", "lower")
        self.assert_finds("layout/a.cpp", '#include "colossal/parallel/a.h"', 1, "parallel/")

    def test_the_same_level(self):
        self.assert_finds("nn/a.h", '#include "colossal/mesh/a.h"\n', 1, "mesh/")
        self.assert_finds("mesh/a.h", '#include "colossal/nn/a.h"\n', 1, "nn/")
        self.assert_finds("ops/a.h", '#include "colossal/comm/a.h"\n', 1, "comm/")

    def test_serve_does_not_know_training(self):
        self.assert_finds("serve/a.h", '#include "colossal/training/a.h"\n', 1, "does not know")
        self.assert_clean({"cluster/a.h": '#include "colossal/training/a.h"\n'})

    def test_unknown_folders(self):
        self.assert_finds("helpers/a.h", "", 1, "no level")
        self.assert_finds("cli/a.cpp", '#include "colossal/helpers/a.h"\n', 1, "no level")

    def test_other_ways_to_include(self):
        self.assert_finds("nn/a.cpp", '#include "builder.h"\n', 1, "colossal/<folder>/<file>.h")
        self.assert_finds("nn/a.cpp", '#include "colossal/colossal.h"\n', 1, "gathers")
        self.assert_finds("nn/a.cpp", '  #  include   "colossal/cli/a.h"\n', 1, "cli/")

    def test_a_header_for_all_layers_is_free(self):
        self.assert_clean({"colossal.h": '#include "colossal/cli/a.h"\n'})

    def test_whole_libtorch(self):
        self.assert_finds("nn/a.cpp", "#include <torch/torch.h>\n", 1, "torch/torch.h")
        self.assert_clean({"nn/a.cpp": "#include <torch/nn/module.h>\n"})

    def test_c10d_outside_comm(self):
        self.assert_finds("mesh/a.cpp", "int x;\nc10d::Backend* b;\n", 2, "c10d")
        self.assert_finds(
            "mesh/a.cpp", "#include <torch/csrc/distributed/c10d/Backend.hpp>\n", 1, "c10d")
        self.assert_clean({"comm/a.cpp": "c10d::Backend* b;\n"})

    def test_libtorch_where_it_is_done_without(self):
        for folder in ("base", "io", "text", "image", "report"):
            self.assert_finds(f"{folder}/a.h", "at::Tensor x;\n", 1, "at::")
            self.assert_finds(f"{folder}/a.h", "torch::Tensor x;\n", 1, "torch::")
            self.assert_finds(f"{folder}/a.h", "#include <ATen/ATen.h>\n", 1, "LibTorch")
        self.assert_clean({"ops/a.h": "at::Tensor x;\n", "base/a.h": "format::x; f(at);\n"})

    def test_comments_and_strings_are_no_code(self):
        self.assert_clean({"base/a.h": '''// at::Tensor
/* torch::Tensor
   c10d::Backend */
const char* text = "at::Tensor // \\" torch::";
'''})
        self.assert_finds("base/a.h", '/* a\n b */ at::Tensor x; // "\n', 2, "at::")
        self.assert_finds("base/a.h", "char c = '\"'; at::Tensor x; // \"\n", 1, "at::")
        self.assert_clean({"base/a.h": 'auto x = R"-(a " b\n at::Tensor)-";\n'})
        self.assert_clean({"base/a.h": '// #include "colossal/io/a.h"\n'})

    def test_models_are_single_process_code(self):
        self.assert_finds("models/transformer.h", '#include "colossal/memory/a.h"\n', 1, "memory/")
        self.assert_finds("models/transformer_config.cpp", '#include "colossal/io/a.h"\n', 1, "io/")
        self.assert_clean({
            "models/gpt2/weights.cpp": '#include "colossal/io/a.h"\n',
            "models/transformer.cpp":
                '#include "colossal/models/gpt2/config.h"\n#include "colossal/nn/a.h"\n',
            "models/gpt2/config.h": '#include "colossal/base/a.h"\n',
        })

    def test_models_are_so_through_other_files_too(self):
        found = self.found({
            "models/transformer.h": '#include "colossal/models/transformer_sharding.h"\n',
            "models/transformer_sharding.h": '\n#include "colossal/layout/a.h"\n',
        })
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith("models/transformer_sharding.h:2: models/transformer.h"), found)


if __name__ == "__main__":
    unittest.main()
