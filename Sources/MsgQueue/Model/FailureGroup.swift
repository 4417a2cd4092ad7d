/// Failed messages with the same kind and code of failure.
package struct FailureGroup: Sendable, Equatable {
    package let kind: FailureKind
    package let code: Int32
    /// The number of messages.
    package let count: Int64
    /// When the first and the last message failed so, since the group was last empty; in milliseconds since 1970. These messages may be gone.
    package let firstAt: Int64
    package let lastAt: Int64
    /// The text of the failure of the newest message.
    package var text: String
}
