//! The threads that serve those who listen.

use std::num::NonZero;
use std::thread::available_parallelism;

use anyhow::Context;
use tokio::runtime::{Builder, Handle, Runtime};

/// Half of the processors: the other half is for whoever asks for something.
const PROCESSORS_PER_THREAD: usize = 2;

/// Threads of their own, which end with it.
pub(super) struct LiveThreads(Option<Runtime>);

impl LiveThreads {
    pub(super) fn start() -> anyhow::Result<Self> {
        let processors = available_parallelism().map_or(1, NonZero::get);
        let runtime = Builder::new_multi_thread()
            .worker_threads(processors.div_ceil(PROCESSORS_PER_THREAD))
            .thread_name("live")
            .enable_all()
            .build()
            .context("cannot start the threads for those who listen")?;
        Ok(LiveThreads(Some(runtime)))
    }

    pub(super) fn handle(&self) -> Handle {
        self.0.as_ref().expect("it is there until it is dropped").handle().clone()
    }
}

impl Drop for LiveThreads {
    /// By then everybody was said goodbye to, or the grace is over: nobody is waited for.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
