/// An entry of the list of conversations.
package struct Conversation: Sendable {
    package let name: String
    package let counts: Counts
    /// The newest message by time, without its body.
    package let last: Message
    /// nil: it has none.
    package let title: String?
    /// By itself, whether the queue is paused or not.
    package let isPaused: Bool
}
