#include "loadtest/replay/passages.h"

namespace lynx {

std::string_view default_passages() {
  static constexpr std::string_view kText = R"(
The harbour wakes before the town does. Fishing boats come in on the last of the tide, and the crews unload by lamplight.
By six the auction hall is loud, and by eight it is empty again. What is left is a wet floor and the smell of salt.
A lighthouse is a simple machine: a lamp, a lens and a clock that turns them. The lens does the work.
Rings of glass bend the light into one flat beam that ships can see from twenty miles away.
Bread needs four things, and time is one of them. Flour and water make a paste, yeast makes it rise, and salt slows the yeast down.
If the dough rests overnight in a cold room, it tastes of more than it did the evening before.
A river does not flow evenly. It runs fast on the outside of a bend and slow on the inside, so it eats one bank and builds the other.
Over a thousand years the bends travel down the valley like waves along a rope.
The first clocks had no hands. They rang a bell, because most people could hear the tower and few could see it.
Pendulums made them accurate to a few seconds a day, and that was enough to find out that the sun itself is not regular.
When a computer reads a file, it seldom reads it from the disk. A copy of the last pages is kept in memory, and the disk is asked only when the copy is missing.
The cost of a miss is a thousand times the cost of a hit, so a small cache changes everything.
A queue that is never full is a promise that nobody can keep. Sooner or later more work arrives than leaves, and the queue has to say no.
The honest answer is to refuse at the door, early and clearly, while the caller can still go somewhere else.
To sort a list of names, compare two of them at a time and swap those that stand in the wrong order. Repeat until nothing moves.
It is easy to explain and slow to run. For ten names nobody will notice; for ten million it will not finish today.
The return value of a function is the only thing that its caller is sure to see. Put the error there, with the reason in it.
A test that cannot fail tells you nothing. Break the code on purpose once, and see whether anything turns red.
Most gardens fail for want of water in the second week. Seeds that have sprouted cannot go back to sleep.
Water deeply and seldom, early in the morning, and the roots will follow the water down.
Old maps show more coast than land. Sailors paid for them, and what lay behind the beach was of no use to a sailor.
A surveyor measures one line very carefully and every other line by angles. One good base is worth a hundred chains.
The train leaves at 7:42 from platform 3, stops in four villages, and reaches the coast at 9:15. A day ticket costs 18 euros.
On the way back the last connection is at 21:05, so there are almost twelve hours to spend by the sea.
Copper carries heat well and iron carries it badly, which is why the best pans have a copper bottom and an iron handle.
A glass of hot tea loses half of its warmth to the air above it and not to the table below.
Why is the sky dark at night? If stars went on for ever in every direction, each line of sight would end on one.
The answer is that the universe has an age, and light from the far stars has not reached us yet.
Bees find their way by the sun, even when clouds cover it. Their eyes see how the light is polarised, and that pattern points to the sun.
Back in the hive, a bee that found flowers dances the direction on the comb, and the others read it in the dark.
A contract should say what happens when things go wrong, because when they go right nobody reads it.
Write down who pays, by which date, and which court decides. Three short sentences will do.
The patient is a man of 54 who has had a cough for three weeks. He does not smoke, has no fever, and takes one tablet for his blood pressure.
The tablet is the likely cause. Change it, and see him again in a month.
Dear team, the meeting on Thursday moves to Friday at ten. Please send me your figures by Wednesday evening.
We will look at costs first, then at the plan for the spring, and we will be done by noon.
The violin has no frets, so the player has to know where each note lies. A hair's breadth is the difference between in tune and nearly.
Beginners look at their fingers. After some years they listen instead.
A bridge is heavier than anything that will ever cross it. Most of its strength goes into carrying itself.
Engineers therefore take away what they can: the lighter the bridge, the less of it is needed.
Summarise the following report in three sentences, and name the two largest risks that it describes.
Sales rose by 4 percent in the north and fell by 9 percent in the south. The new warehouse opened two months late.
Explain to a child why the moon changes its shape. Use a lamp, an orange and a dark room.
Translate the label on the bottle into plain words: keep it cool, keep it dry, and do not give it to animals.
Ice is lighter than water, which is rare: most things shrink when they freeze. If ice sank, lakes would fill with it from the bottom up.
Because it floats, it covers the lake like a lid, and the fish live through the winter underneath.
The library was built without windows on the south side, for paper fears the sun more than the cold.
Its oldest book is a list of debts. People forget what they loved before they forget what they are owed.
To find a word in a dictionary nobody reads it from the front. Open it in the middle, decide which half to keep, and do it again.
Twenty such steps are enough for a million words. That is what a logarithm means.
A good translator reads the whole page before the first sentence is written. The last line often decides what the first one meant.
Mountains make their own weather. Air that is pushed up a slope cools, its water falls as rain, and the far side stays dry.
The baker, the smith and the tailor shared one yard and one well. Each of them believed that the other two used more water.
An orchestra tunes to the oboe, because the oboe is the instrument that can least change its mind.
Every measurement has an error, and a measurement without one is a rumour. Write down both numbers.
The memory of the machine can deliver so many bytes in a second, and the model has so many bytes to read. Divide one by the other, and you have the fastest step that is possible.
When several people ask at once, their questions can share that reading. This is why a busy server is cheaper per answer than an idle one.
An expert that only one question needs costs as much to fetch as an expert that all of them need.
The ferry carries forty cars and takes twenty minutes. With one ferry the line never ends on Saturdays; with two it is gone by nine.
It is not the average that fills a waiting room but the spread. Ten people in an hour are nothing, and ten in one minute are a crowd.
In autumn the valley fills with fog up to the third bend of the road. Above it the sun shines on what looks like a white sea.
Children there learn to tell by the sound of the bells whether the fog will lift before school is out.
)";
  return kText;
}

}  // namespace lynx
