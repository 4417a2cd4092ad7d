/// A conversation as a list of conversations shows it.
public struct Conversation: Sendable {
    public let name: String
    public let counts: Counts
    /// Its newest message, without the body.
    public let last: Message
}
