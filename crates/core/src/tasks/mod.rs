//! Tasks: work that an outside generator does for a project, and what becomes of it.
//!
//! Invariants:
//! - a task changes only as [`step()`] says, and what is over stays over;
//! - whatever waits for something has a job that comes back for it: each step that leaves a task
//!   waiting brings the wish for that job, so that they are written together or not at all;
//! - what may have been sent is never sent again without asking: [`TaskStage::Sending`] is written
//!   before, and whoever finds it asks first or ends the task as [`SUBMIT_UNKNOWN`].

mod cycle;
mod diagram;
mod ending;
mod machine;
mod new;
mod task;
mod work;

pub use cycle::{Due, TaskLook, come_back_at, due, failed_poll_pause};
pub use diagram::task_diagram;
pub use ending::{LABEL_CHARS_MAX, completion, room_stream, told};
pub use machine::{
    DEADLINE_EXCEEDED, Produced, Refused, SUBMIT_UNKNOWN, Stepped, TASK_ENTITY, TaskEvent, step,
};
pub use new::{NewTask, TaskRules, new_task};
pub use task::{
    InvalidTaskText, KeptFile, NODE_BYTES_MAX, PARAMS_BYTES_MAX, RESULT_DATA_BYTES_MAX, Task,
    TaskError, TaskId, TaskStage, TaskStatus, TaskType, check_node,
};
pub use work::{
    CANCEL_KIND, COLLECT_KIND, POLLING_KIND, PRUNE_KIND, SUBMIT_KIND, SWEEP_KIND, cancel_wish,
    collect_wish, polling_wish, submit_wish, task_of_key,
};
