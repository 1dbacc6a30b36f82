import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.protobuf.ByteString;
import java.io.ByteArrayOutputStream;
import java.math.BigInteger;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.hyperledger.fabric.client.CloseableIterator;
import org.hyperledger.fabric.client.CommitStatusException;
import org.hyperledger.fabric.client.Contract;
import org.hyperledger.fabric.client.EndorseException;
import org.hyperledger.fabric.client.GatewayException;
import org.hyperledger.fabric.client.Network;
import org.hyperledger.fabric.client.Proposal;
import org.hyperledger.fabric.client.SubmitException;
import org.hyperledger.fabric.client.Transaction;
import org.hyperledger.fabric.protos.common.Block;
import org.hyperledger.fabric.protos.common.BlockHeader;

/**
 * The session of the Node client (tests/caliper/gateway-session.js) step by step in the Java client, printed in the
 * same words: what was recorded with Fabric 2.5.16 is what both must print.
 */
public final class GatewaySession {
    private final Session session;
    private final Network network;
    private final Contract contract;

    private GatewaySession(Session session, Network network) {
        this.session = session;
        this.network = network;
        contract = network.getContract("marbles");
    }

    public static void main(String[] args) throws Exception {
        Session session = new Session(args);
        try (Session.Connection one = session.open("Org1MSP")) {
            GatewaySession us = new GatewaySession(session, one.network());
            us.results();
            us.errors();
            us.wrongChannel(one.gateway().getNetwork("nowhere").getContract("marbles"));
            us.wrongIdentity();
            us.codes();
            us.events();
            us.blocks();
        }
    }

    /** A step that may fail. */
    private interface Attempt {
        Object run() throws Exception;
    }

    private void refused(String step, Attempt attempt) throws Exception {
        try {
            attempt.run();
            session.say(step, "accepted");
        } catch (GatewayException error) {
            session.say(step, spell(error));
        }
    }

    /** What a client learns of an error: its class, gRPC's code and message, and who said what behind it. */
    private static String spell(GatewayException error) {
        String kind = error instanceof EndorseException ? "EndorseError"
                : error instanceof SubmitException ? "SubmitError"
                : error instanceof CommitStatusException ? "CommitStatusError" : "GatewayError";
        var status = error.getStatus();
        var said = new TreeSet<String>();
        for (var detail : error.getDetails()) {
            String message = detail.getMessage().replaceFirst("^rpc error: code = \\w+ desc = ", "");
            said.add(detail.getMspId() + " says \"" + message + "\"");
        }
        String head = kind + " \"" + status.getCode().value() + " " + status.getCode() + ": " + status.getDescription() + "\"";
        return said.isEmpty() ? head : head + "; " + String.join("; ", said);
    }

    private String evaluate(String... call) throws GatewayException {
        return Session.text(contract.evaluateTransaction(call[0], Arrays.copyOfRange(call, 1, call.length)));
    }

    private String submit(String... call) throws Exception {
        return Session.text(contract.submitTransaction(call[0], Arrays.copyOfRange(call, 1, call.length)));
    }

    private void results() throws Exception {
        for (String[] marble : new String[][] {{"m1", "blue"}, {"m2", "red"}, {"m3", "blue"}, {"m4", "green"}}) {
            submit("initMarble", marble[0], marble[1], "5", "alice");
        }
        session.say("read", evaluate("readMarble", "m1"));
        session.say("range", evaluate("getMarblesByRange", "m1", "m3"));
        session.say("composite keys", submit("transferMarblesBasedOnColor", "blue", "zoe"));
        session.say("after it", evaluate("readMarble", "m3"));
        submit("delete", "m4");
        refused("deleted", () -> evaluate("readMarble", "m4"));
    }

    private void errors() throws Exception {
        Contract nothing = network.getContract("nothing");
        refused("submit what the contract refuses", () -> submit("initMarble", "m1", "red", "1", "bob"));
        refused("evaluate what the contract refuses", () -> evaluate("readMarble", "m9"));
        refused("unknown chaincode", () -> nothing.submitTransaction("f"));
        refused("evaluate unknown chaincode", () -> nothing.evaluateTransaction("f"));
    }

    private void wrongChannel(Contract elsewhere) throws Exception {
        refused("unknown channel", () -> elsewhere.submitTransaction("f"));
        refused("evaluate on unknown channel", () -> elsewhere.evaluateTransaction("f"));
    }

    private void wrongIdentity() throws Exception {
        try (Session.Connection foreign = session.open("Org1MSP", "Org2MSP")) {
            Contract theirs = foreign.network().getContract("marbles");
            refused("certificate of another organisation", () -> theirs.evaluateTransaction("readMarble", "m1"));
            refused("submit with it", () -> theirs.submitTransaction("transferMarble", "m1", "eve"));
        }
    }

    private Proposal.Builder propose(String name, String... arguments) {
        return contract.newProposal(name).addArguments(arguments);
    }

    private static int status(Transaction transaction) throws Exception {
        return transaction.submitAsync().getStatus().getCode().getNumber();
    }

    private void codes() throws Exception {
        Transaction one = propose("transferMarble", "m1", "bob").build().endorse();
        Transaction other = propose("transferMarble", "m1", "eve").build().endorse();
        session.say("two updates of one version", status(one) + "," + status(other));

        Transaction scan = propose("transferMarblesBasedOnColor", "red", "dave").build().endorse();
        submit("initMarble", "m5", "red", "5", "alice");
        session.say("a range that has grown", status(scan));

        Proposal single = propose("transferMarble", "m2", "bob").setEndorsingOrganizations("Org1MSP").build();
        session.say("one endorsement of two", status(single.endorse()));

        Transaction twice = propose("transferMarble", "m2", "carol").build().endorse();
        session.say("submitted twice", status(twice) + "," + status(twice));
        JsonObject marble = new Gson().fromJson(evaluate("readMarble", "m2"), JsonObject.class);
        session.say("who has it", marble.get("owner").getAsString());
    }

    /** The first items of an endless stream. */
    private static <T> List<T> first(CloseableIterator<T> stream, int count) {
        try (stream) {
            List<T> items = new ArrayList<>();
            while (items.size() < count) {
                items.add(stream.next());
            }
            return items;
        }
    }

    private void events() {
        var seen = first(network.newChaincodeEventsRequest("marbles").startBlock(0).build().getEvents(), 5);
        session.say("events", seen.stream()
                .map(event -> event.getChaincodeName() + " " + event.getEventName() + " " + Session.text(event.getPayload()))
                .collect(Collectors.joining(", ")));
    }

    private static byte[] sha256(byte[] bytes) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(bytes);
        } catch (NoSuchAlgorithmException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** Fabric's block hash: SHA-256 of the ASN.1 SEQUENCE of number, previous hash and data hash. */
    private static byte[] headerHash(BlockHeader header) {
        ByteArrayOutputStream inside = new ByteArrayOutputStream();
        element(inside, 2, BigInteger.valueOf(header.getNumber()).toByteArray());
        element(inside, 4, header.getPreviousHash().toByteArray());
        element(inside, 4, header.getDataHash().toByteArray());
        ByteArrayOutputStream whole = new ByteArrayOutputStream();
        element(whole, 0x30, inside.toByteArray());
        return sha256(whole.toByteArray());
    }

    private static void element(ByteArrayOutputStream out, int tag, byte[] bytes) {
        out.write(tag);
        out.write(bytes.length);
        out.writeBytes(bytes);
    }

    /** The first blocks of the channel; transactions go on until there are that many, however few a block may hold. */
    private List<Block> firstBlocks(int count) throws Exception {
        ExecutorService reader = Executors.newSingleThreadExecutor();
        try {
            Future<List<Block>> reading =
                    reader.submit(() -> first(network.newBlockEventsRequest().startBlock(0).build().getEvents(), count));
            while (!reading.isDone()) {
                submit("transferMarble", "m2", "carol");
            }
            return reading.get();
        } finally {
            reader.shutdownNow();
        }
    }

    private void blocks() throws Exception {
        List<Block> chain = firstBlocks(4);
        session.say("block numbers", chain.stream()
                .map(block -> String.valueOf(block.getHeader().getNumber())).collect(Collectors.joining(",")));
        boolean linked = true;
        boolean hashed = true;
        for (int i = 0; i < chain.size(); i++) {
            BlockHeader header = chain.get(i).getHeader();
            linked &= i == 0 || header.getPreviousHash().equals(ByteString.copyFrom(headerHash(chain.get(i - 1).getHeader())));
            ByteString data = ByteString.copyFrom(chain.get(i).getData().getDataList());
            hashed &= header.getDataHash().equals(ByteString.copyFrom(sha256(data.toByteArray())));
        }
        session.say("linked", linked);
        session.say("data hashes", hashed);
        var filtered = first(network.newFilteredBlockEventsRequest().startBlock(0).build().getEvents(), 1).get(0);
        session.say("filtered", filtered.getChannelId() + " " + filtered.getNumber());
    }
}
