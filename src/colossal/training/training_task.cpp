#include "colossal/training/training_task.h"

#include "colossal/base/error.h"

namespace colossal {

std::vector<int32_t> TrainingTask::prompt_tokens(const std::string& prompt) const {
  COLOSSAL_CHECK(false, "the prompt \"{}\" for a model that generates no text", prompt);
}

}  // namespace colossal
