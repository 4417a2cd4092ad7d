/// The titles of conversations. They are kept when a conversation has no messages left.
final class Titles {
    private let database: Database

    init(_ database: Database) { self.database = database }

    /// Returns the title of a conversation; nil: it has none, or the row is damaged.
    func title(of conversation: Name) throws(QueueError) -> String? {
        let statement = try database.statement("SELECT text, checksum FROM title WHERE conversation = ?1")
        try statement.bind(1, conversation.text)
        guard let (text, checksum) = try statement.first({ () throws(QueueError) in (statement.text(0), statement.int(1)) }) else {
            return nil
        }
        guard checksum == Self.checksum(of: text, conversation.text) else {
            Log.error("\(database.path): the title of a conversation is damaged")
            return nil
        }
        return text
    }

    /// Whether the conversation has a title, damaged or not.
    func contains(_ conversation: Name) throws(QueueError) -> Bool {
        let statement = try database.statement("SELECT 1 FROM title WHERE conversation = ?1")
        try statement.bind(1, conversation.text)
        return try statement.first { true } ?? false
    }

    /// Sets or, with an empty text, removes the title of a conversation, inside the caller's transaction.
    func set(_ title: String, of conversation: Name) throws(QueueError) {
        guard !title.isEmpty else {
            let removal = try database.statement("DELETE FROM title WHERE conversation = ?1")
            try removal.bind(1, conversation.text)
            return try removal.run()
        }
        let statement = try database.statement("INSERT OR REPLACE INTO title(conversation, text, checksum) VALUES(?1, ?2, ?3)")
        try statement.bind(1, conversation.text)
        try statement.bind(2, title)
        statement.bind(3, Self.checksum(of: title, conversation.text))
        try statement.run()
    }

    /// Returns the number of damaged titles.
    func damaged() throws(QueueError) -> Int {
        let statement = try database.statement("SELECT conversation, text, checksum FROM title")
        var damaged = 0
        try statement.forEach { () throws(QueueError) in
            if statement.int(2) != Self.checksum(of: statement.text(1), statement.text(0)) { damaged += 1 }
            return true
        }
        return damaged
    }

    static func checksum(of title: String, _ conversation: String) -> Int64 {
        var checksum = Checksum()
        checksum.add(conversation)
        checksum.add(title)
        return checksum.stored
    }
}
