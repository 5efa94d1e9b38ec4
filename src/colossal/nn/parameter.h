// A model's parameter, and the handle through which layers read it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace colossal::nn {

// How a parameter's values arise when no checkpoint gives them. Element i of the global tensor is a
// pure function of (seed, name, i), so any slice can be made alone, anywhere.
struct Initializer {
  enum class Kind { constant, normal };
  Kind kind = Kind::constant;
  double value = 0;   // constant: the value; normal: the mean
  double spread = 0;  // normal: the standard deviation

  static Initializer zeros() { return {}; }
  static Initializer ones() { return {.value = 1}; }
  static Initializer normal(double deviation) {
    return {.kind = Kind::normal, .value = 0, .spread = deviation};
  }
};

struct Parameter;

// Where a parameter's bytes rest is memory/'s business; this is what it implements.
class Residency {
 public:
  virtual ~Residency() = default;
  // Called before an operator reads the parameter: waits for, or fetches, its bytes.
  virtual void before_use(Parameter& parameter) = 0;
};

struct Parameter {
  std::string name;            // path within the model: "blocks.3.mlp_up.weight"
  std::vector<int64_t> shape;  // of the global tensor
  Initializer initializer;
  bool trainable = true;
  at::Tensor tensor;  // a leaf; undefined until memory/ gives it storage
  Residency* residency = nullptr;

  int64_t numel() const;
};

// Shared by all that read the parameter (a tied head holds the embedding's handle).
class ParameterHandle {
 public:
  ParameterHandle() = default;
  explicit ParameterHandle(std::shared_ptr<Parameter> parameter)
      : parameter_(std::move(parameter)) {}

  // The weight, ready for an operator. Read it anew at each use; never keep it.
  at::Tensor use() const;

  Parameter& operator*() const { return *parameter_; }
  Parameter* operator->() const { return parameter_.get(); }
  explicit operator bool() const { return parameter_ != nullptr; }
  bool operator==(const ParameterHandle&) const = default;

 private:
  std::shared_ptr<Parameter> parameter_;
};

// In order of registration, which for our models is the order of use.
using ParameterList = std::vector<ParameterHandle>;

}  // namespace colossal::nn
