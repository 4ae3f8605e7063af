//! The sources, one file each. A file holds only what is peculiar to its service.

mod file;
mod file_watch;
mod files;
mod glob;
mod http_poll;
mod http_push;
mod number_iterator;
mod reactive_stream;
mod server_sent_events;
mod standard_input;
mod web_socket_file_upload;
mod websocket;

pub(crate) use file::FileStream;
pub use file::{FileIngest, FileIngestMode};
pub use http_poll::HttpPollIngest;
pub use http_push::HttpPushIngest;
pub use number_iterator::NumberIteratorIngest;
pub use reactive_stream::ReactiveStream;
pub use server_sent_events::ServerSentEventsIngest;
pub use standard_input::StandardInputIngest;
pub use web_socket_file_upload::WebSocketFileUpload;
pub use websocket::{KeepAlive, PingPongInterval, SendMessageInterval, WebsocketSimpleStartupIngest};
