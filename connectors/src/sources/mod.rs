//! The sources that need no folder of their own, as services with a protocol or a client of theirs do. A file holds only what is
//! peculiar to its source; `files`, `file_watch` and `glob` belong to `file`.

mod file;
mod files;
mod file_watch;
mod glob;
mod standard_input;
mod number_iterator;
mod http_push;
mod http_poll;
mod server_sent_events;
mod websocket;
mod web_socket_file_upload;
mod reactive_stream;

pub use file::FileIngest;
pub(crate) use file::FileStream;
pub(crate) use files::shown_place;
pub use http_poll::HttpPollIngest;
pub use http_push::HttpPushIngest;
pub use number_iterator::NumberIteratorIngest;
pub use reactive_stream::ReactiveStream;
pub use server_sent_events::ServerSentEventsIngest;
pub use standard_input::StandardInputIngest;
pub use web_socket_file_upload::WebSocketFileUpload;
pub use websocket::WebsocketSimpleStartupIngest;
